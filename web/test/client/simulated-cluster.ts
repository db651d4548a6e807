import { FakeEventStream } from "./fake-event-stream.ts";
import { type FakeCall, type FakeNetwork, json, refusal } from "./fake-network.ts";
import type { SeededRandom } from "./seeded-random.ts";
import { SimulatedEventSocket } from "./simulated-event-socket.ts";
import { SimulatedLine } from "./simulated-line.ts";
import { type Entry, SimulatedLog } from "./simulated-log.ts";

/** How often something happens to the answer: the share of the steps in which it does. */
export interface Troubles {
  readonly crash: number;
  readonly handOver: number;
  /** The share of the new owners that begin anew instead of going on. */
  readonly anew: number;
  /** The owner's model begins again from somewhere. */
  readonly restart: number;
  /** A connection is cut. */
  readonly cut: number;
  /** From now on handshakes are refused for a while. */
  readonly storm: number;
}

const STEP_MS = 20;
const LAST_EPOCH = 4;
const SILENCE_MS = 12_000;

/**
 * Tasks that answer one question. One owns the response, and others follow it or read what is on record. An owner that
 * crashes takes with it what is not on record; the next one writes under the same indexes again, in the next epoch.
 */
export class SimulatedCluster {
  log = new SimulatedLog();
  #recorded = 0;
  #epoch = 1;
  /** Until then nobody owns the response. */
  #ownerlessUntil = 0;
  #stormUntil = 0;
  #tokens = 0;
  readonly #length: number;
  readonly #random: SeededRandom;
  readonly #troubles: Troubles;
  readonly #lines: SimulatedLine[] = [];
  readonly #clock: ReturnType<typeof setInterval>;

  constructor(network: FakeNetwork, random: SeededRandom, troubles: Troubles) {
    this.#random = random;
    this.#troubles = troubles;
    this.#length = random.between(30, 120);
    network.onSocket = (socket) => {
      if (Date.now() < this.#stormUntil) setTimeout(() => socket.drop(), random.between(1, 60));
      else this.#lines.push(new SimulatedLine(socket, this, random));
    };
    network.on("POST /chat/message", () =>
      json(202, { response_id: "rsp_1", message_id: "id-1", status: "streaming" }),
    );
    network.on("GET /chat/message/rsp_1", (call) => this.#poll(call));
    network.on("GET /chat/message/rsp_1/events", (call) => this.#stream(call));
    this.#clock = setInterval(() => this.#step(), STEP_MS);
  }

  stop(): void {
    clearInterval(this.#clock);
  }

  /** What the store holds. */
  get record(): SimulatedLog {
    return new SimulatedLog(this.log.entries.slice(0, this.#recorded));
  }

  #step(): void {
    const { crash, handOver, cut, storm } = this.#troubles;
    if (!this.log.closed && Date.now() >= this.#ownerlessUntil) {
      if (this.#epoch < LAST_EPOCH && this.#random.happens(crash)) this.#crash();
      else if (this.#epoch < LAST_EPOCH && this.#random.happens(handOver)) this.#handOver();
      else this.#generate();
    }
    if (this.#random.happens(storm)) this.#stormUntil = Date.now() + this.#random.between(0, 15_000);
    for (const line of this.#lines) {
      if (this.#random.happens(cut)) line.drop(this.#random.happens(0.5) ? 1006 : 1001);
      line.step();
    }
  }

  #generate(): void {
    const { anew, restart } = this.#troubles;
    if (this.log.epoch < this.#epoch) {
      this.#append({ fromIndex: this.#random.happens(anew) ? -1 : this.log.nextIndex - 1, epoch: this.#epoch });
    }
    if (this.#random.happens(restart)) {
      const kept = [-1, ...this.log.standing];
      this.#append({ fromIndex: kept[this.#random.between(0, kept.length - 1)] ?? -1, epoch: 0 });
    }
    for (let count = this.#random.between(0, 3); count > 0; count -= 1) {
      this.#tokens += 1;
      this.#append(this.#next(`${this.#epoch}.${this.#tokens} `));
    }
    if (this.#random.happens(0.2)) this.#recorded = this.#random.between(this.#recorded, this.log.nextIndex);
    if (this.log.nextIndex < this.#length) return;
    this.#recorded = this.log.nextIndex;
    this.log.closed = true;
  }

  /** What the model gives: mostly text, and calls that are not in the way of each other. */
  #next(token: string): Entry {
    const call = this.#random.between(0, 1);
    const id = `${this.#tokens}`;
    switch (this.#random.between(0, 15)) {
      case 0:
      case 1:
      case 2:
        return { kind: "reasoning", text: token };
      case 3:
        return { kind: "call", call, id: `call_${call}`, name: "look_up" };
      case 4:
      case 5:
      case 6:
        return { kind: "arguments", call, text: token };
      case 7:
        return { kind: "call_end", call };
      case 8:
        return { kind: "result", id: `call_${call}`, text: token };
      case 9:
        return { kind: "data", name: "source", value: { url: `https://example.com/${id}` } };
      default:
        return token;
    }
  }

  #append(entry: Entry): void {
    this.log.entries.push(entry);
  }

  /** What is not on record is lost, with the connections to this owner. */
  #crash(): void {
    this.log = this.record;
    this.#epoch += 1;
    this.#ownerlessUntil = Date.now() + this.#random.between(0, SILENCE_MS);
    for (const line of this.#lines) if (line.isOwners) line.drop(1006);
  }

  /** Everything is on record, and the clients of this owner are asked to leave it, each in its own time. */
  #handOver(): void {
    this.#recorded = this.log.nextIndex;
    this.#epoch += 1;
    this.#ownerlessUntil = Date.now() + this.#random.between(0, 500);
    for (const line of this.#lines) {
      if (!line.isOwners) continue;
      const afterMs = this.#random.between(0, 2_000);
      line.askToReconnect(afterMs);
      setTimeout(() => line.drop(1001), afterMs + this.#random.between(2_000, 5_000));
    }
  }

  #stream(call: FakeCall): Response {
    // In a storm some are let in every second.
    if (Date.now() < this.#stormUntil && this.#random.happens(0.5)) {
      return refusal(503, { type: "overloaded_error", code: "reconnect_storm", retry_after_ms: 1_000 });
    }
    const query = new URL(call.path, "http://test").searchParams;
    const stream = new FakeEventStream(call);
    const socket = new SimulatedEventSocket(stream);
    this.#lines.push(new SimulatedLine(socket, this, this.#random));
    const [after, epoch] = [Number(query.get("after")), Number(query.get("epoch"))];
    socket.onSend({ type: "response.resume", response_id: "rsp_1", after, epoch });
    return stream.response;
  }

  /** Answers a poll, without the `full_text` that would put everything right in the end. */
  async #poll(call: FakeCall): Promise<Response> {
    await new Promise((resolve) => setTimeout(resolve, this.#random.between(10, 2_000)));
    if (this.#random.happens(0.05)) throw new TypeError("network");
    if (this.#random.happens(0.05)) {
      return refusal(503, { type: "overloaded_error", code: "store_unavailable", retry_after_ms: 200 });
    }
    const query = new URL(call.path, "http://test").searchParams;
    const from = Number(query.get("from_index"));
    const copy = this.#random.happens(0.5) || this.log.closed ? this.log : this.record;
    const point = copy.resumePoint(from - 1, Number(query.get("epoch")));
    const { text, events, replacedAfter } =
      point === undefined ? { text: "", events: [], replacedAfter: undefined } : copy.read(point.nextIndex);
    const keepUpTo = point?.replacedBy === undefined ? replacedAfter : -1;
    const next = point === undefined ? from : copy.nextIndex;
    return json(200, {
      response_id: "rsp_1",
      new_text: text,
      ...(events.length > 0 ? { events } : {}),
      chunk_index: next - 1,
      status: this.log.closed ? "completed" : "streaming",
      metadata: {
        message_id: "id-1",
        next_index: next,
        epoch: copy.epoch,
        finish_reason: this.log.closed ? "stop" : null,
        degraded: false,
        usage: null,
        restarted: keepUpTo === undefined ? null : { from_index: keepUpTo, attempt: 2 },
      },
    });
  }
}
