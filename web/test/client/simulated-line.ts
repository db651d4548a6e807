import type { FakeSocket, Frame } from "./fake-socket.ts";
import type { SeededRandom } from "./seeded-random.ts";
import type { SimulatedCluster } from "./simulated-cluster.ts";
import { isMarker, joined, SimulatedLog } from "./simulated-log.ts";

/** Most entries that are joined into one frame. */
const MOST_JOINED = 6;

/** The server's end of one WebSocket: a task with a copy of the log, and the cursor of the client's reader over it. */
export class SimulatedLine {
  readonly #socket: FakeSocket;
  readonly #cluster: SimulatedCluster;
  readonly #random: SeededRandom;
  readonly #latencyMs: number;
  /** Whether the copy is as the owner's log is, or as what is on record. */
  readonly #isLive: boolean;
  #copy: SimulatedLog;
  #request: { readonly after: number; readonly epoch: number } | undefined;
  #reader: { next: number; epoch: number } | undefined;
  isOpen = true;
  isOwners: boolean;

  constructor(socket: FakeSocket, cluster: SimulatedCluster, random: SeededRandom) {
    this.#socket = socket;
    this.#cluster = cluster;
    this.#random = random;
    this.#latencyMs = random.between(1, 60);
    this.isOwners = random.happens(0.5);
    this.#isLive = this.isOwners || random.happens(0.5);
    this.#copy = new SimulatedLog(this.#source.entries);
    socket.onSend = (frame) => this.#later(() => this.#receive(frame));
    this.#later(() => socket.ready());
  }

  get #source(): SimulatedLog {
    return this.#isLive ? this.#cluster.log : this.#cluster.record;
  }

  drop(code: number): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#socket.drop(code);
  }

  askToReconnect(afterMs: number): void {
    this.isOwners = false;
    this.#later(() => this.#socket.frame({ type: "reconnect", reason: "drain", after_ms: afterMs }));
  }

  /** Copies some of what is new, and delivers some of it. */
  step(): void {
    if (this.#socket.closedByClient) this.isOpen = false;
    if (!this.isOpen) return;
    this.#follow();
    this.#begin();
    while (this.#reader !== undefined && this.#reader.next < this.#copy.nextIndex) {
      if (this.#random.happens(0.2)) return;
      this.#deliver(this.#reader);
    }
    if (this.#reader !== undefined && this.#cluster.log.closed && this.#isComplete) this.#end();
  }

  get #isComplete(): boolean {
    return this.#isPartOfLog && this.#copy.nextIndex === this.#cluster.log.nextIndex;
  }

  get #isPartOfLog(): boolean {
    return this.#copy.entries.every((entry, index) => entry === this.#cluster.log.entries[index]);
  }

  #follow(): void {
    if (this.#isPartOfLog) {
      const news = this.#source.entries.slice(this.#copy.nextIndex);
      this.#copy.entries.push(...news.slice(0, this.#random.between(0, news.length)));
    } else if (this.#random.happens(0.1)) {
      // It notices that its owner was lost with some of what is in this copy: the reader goes on from another one.
      this.#copy = new SimulatedLog(this.#cluster.record.entries);
      if (this.#reader !== undefined) this.#request = { after: this.#reader.next - 1, epoch: this.#reader.epoch };
      this.#reader = undefined;
    }
  }

  #receive(frame: Frame): void {
    if (frame.type === "ping") this.#later(() => this.#socket.frame({ type: "pong" }));
    if (frame.type === "chat.message") this.#request = { after: -1, epoch: 1 };
    if (frame.type === "response.resume") {
      this.#request = { after: frame.after as number, epoch: frame.epoch as number };
      this.#reader = undefined;
    }
  }

  #begin(): void {
    const point = this.#request && this.#copy.resumePoint(this.#request.after, this.#request.epoch);
    if (this.#request === undefined || point === undefined) return;
    const { nextIndex: next, replacedBy } = point;
    const start = () => this.#socket.start({ message_id: "id-1", next_index: next, epoch: this.#copy.epoch });
    this.#reader = { next, epoch: replacedBy ?? this.#request.epoch };
    this.#request = undefined;
    const restartFirst = this.#random.happens(0.5);
    if (!restartFirst) this.#later(start);
    if (replacedBy !== undefined) this.#later(() => this.#socket.restarted(-1, -1, replacedBy));
    if (restartFirst) this.#later(start);
  }

  #deliver(reader: { next: number; epoch: number }): void {
    const from = reader.next;
    const first = this.#copy.entries[from];
    reader.next += 1;
    if (first === undefined) throw new Error("nothing is there to deliver");
    if (isMarker(first)) {
      reader.epoch = Math.max(reader.epoch, first.epoch);
      const { epoch } = reader;
      this.#later(() => this.#socket.restarted(from, first.fromIndex, epoch));
      return;
    }
    let content = first;
    for (let most = this.#random.between(1, MOST_JOINED); most > 1; most -= 1) {
      const both = joined(content, this.#copy.entries[reader.next]);
      if (both === undefined) break;
      content = both;
      reader.next += 1;
    }
    const last = reader.next - 1;
    this.#later(() => this.#socket.entry(last, content, last === from ? undefined : from));
  }

  #end(): void {
    this.#reader = undefined;
    const lastIndex = this.#copy.nextIndex - 1;
    this.#later(() => this.#socket.completed(lastIndex));
  }

  /** What is on its way arrives in order, or not at all when the connection is lost. */
  #later(what: () => void): void {
    setTimeout(() => {
      if (this.isOpen && !this.#socket.closedByClient) what();
    }, this.#latencyMs);
  }
}
