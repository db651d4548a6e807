import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import vectors from "../../../tests/conformance/vectors/reconnect.json";
import { EvenflowClient } from "../../src/client/client.ts";
import { Asked, pass } from "./asked.ts";
import { FakeNetwork, type Path } from "./fake-network.ts";
import { FakePage } from "./fake-page.ts";

interface Step {
  readonly do?: string;
  readonly wait_ms?: readonly [number, number];
  readonly at_once?: boolean;
  readonly transport?: string;
  readonly hanging?: number;
  readonly ended?: string;
}

const cases = vectors.cases as unknown as readonly { readonly name: string; readonly steps: readonly Step[] }[];

let network: FakeNetwork;
let page: FakePage;

beforeEach(() => {
  vi.useFakeTimers();
  network = new FakeNetwork();
  page = new FakePage();
});

afterEach(() => {
  vi.useRealTimers();
});

/** The client and its world, in which the steps of a case happen. */
class Conduct {
  readonly #asked: Asked;
  #waits = 0;
  #sockets = 0;

  constructor() {
    this.#asked = new Asked(new EvenflowClient({ url: "http://test" }));
  }

  async begin(): Promise<void> {
    await pass();
    network.socket.start();
    network.socket.delta(0, "a");
    await pass();
  }

  async happen(event: string): Promise<void> {
    this.#sockets = network.sockets.length;
    const [, seconds] = /^(\d+) s$/.exec(event) ?? [];
    const [, slotMs] = /^leaves in (\d+) ms$/.exec(event) ?? [];
    if (seconds) {
      await pass(Number(seconds) * 1_000);
      this.#forgetWaits();
    } else if (slotMs) {
      network.socket.frame({ type: "reconnect", reason: "drain", after_ms: Number(slotMs) });
      network.socket.drop(1001);
    } else if (event === "refused" || event === "portal" || event === "dark") this.#cut(event);
    else if (event === "no websocket") {
      network.takesWebSockets = false;
      network.socket.drop();
    } else if (event === "hidden" || event === "visible") page.show(event === "visible");
    else if (event === "offline" || event === "online") page.connect(event === "online");
    else if (event === "focus") page.fire(event);
    else this.#refuse(event);
    await pass();
  }

  async expect({ wait_ms, at_once, transport, hanging, ended }: Step, chance: number): Promise<void> {
    if (wait_ms) {
      const waited = await this.#nextWait();
      expect(waited).toBeCloseTo(wait_ms[0] + chance * (wait_ms[1] - wait_ms[0]), -1);
      await pass(waited + 3);
    }
    if (at_once) {
      await pass(100);
      expect(network.sockets.length).toBeGreaterThan(this.#sockets);
      this.#forgetWaits();
    }
    if (transport) expect(this.#asked.of("transport").at(-1)?.transport).toBe(transport);
    if (hanging) expect(network.sockets.filter(({ hangs }) => hangs)).toHaveLength(hanging);
    expect((this.#asked.error as { body?: { code: string } } | undefined)?.body?.code).toBe(ended);
  }

  #cut(path: Path): void {
    network.path = path;
    network.socket.drop();
  }

  #refuse(event: string): void {
    const [, seconds] = /^503, Retry-After: (\d+)$/.exec(event) ?? [];
    const refuse = seconds
      ? {
          type: "throttle",
          retry_after_ms: Number(seconds) * 1_000,
          error: { type: "rate_limit_error", code: "response_readers", message: "" },
        }
      : {
          type: "error",
          response_id: "rsp_1",
          error: { type: "not_found_error", code: event.split(" ")[1], message: "" },
        };
    network.onSocket = (socket) => {
      queueMicrotask(() => socket.ready());
      socket.onSend = ({ type }) => type === "response.resume" && queueMicrotask(() => socket.frame(refuse));
    };
    network.socket.onSend = ({ type }) =>
      type === "response.resume" && queueMicrotask(() => network.socket.frame(refuse));
    network.socket.delta(5, "a gap, so that it resumes");
  }

  /** How long the client waits that has just failed once more. */
  async #nextWait(): Promise<number> {
    const waits = this.#pauses;
    expect(waits.length).toBeGreaterThan(this.#waits);
    this.#waits = waits.length;
    return waits.at(-1)?.delayMs ?? 0;
  }

  /** All waits but the present one have been. */
  #forgetWaits(): void {
    this.#waits = this.#pauses.length - 1;
  }

  get #pauses(): { delayMs: number }[] {
    return [...this.#asked.of("reconnecting"), ...this.#asked.of("waiting")];
  }
}

describe.each([0.1, 0.99])("with chance %d, a client behaves as the vectors say", (chance) => {
  it.each(cases)("$name", async ({ steps }) => {
    network.random = () => chance;
    const conduct = new Conduct();
    await conduct.begin();
    for (const step of steps) {
      if (step.do) await conduct.happen(step.do);
      else await conduct.expect(step, chance);
    }
  });
});
