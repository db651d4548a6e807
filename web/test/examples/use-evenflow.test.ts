import type { Client } from "@evenflow/client";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { useEvenflow } from "../../examples/react/use-evenflow.ts";
import { ScriptedClient } from "../element/scripted-client.ts";
import { OneComponent } from "./one-component.ts";

let component: OneComponent;
vi.mock("react", () => ({
  useState: (initial: unknown) => component.useState(initial),
  useRef: (initial: unknown) => component.useRef(initial),
  useCallback: (callback: unknown) => component.useCallback(callback),
  useEffect: (effect: () => undefined, inputs: unknown[]) => component.useEffect(effect, inputs),
}));

async function settle(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve));
}

function render(client: ScriptedClient): ReturnType<typeof useEvenflow> {
  return component.render(() => useEvenflow(client as unknown as Client));
}

describe("useEvenflow", () => {
  beforeEach(() => {
    vi.stubGlobal("document", { hidden: false });
    vi.stubGlobal("matchMedia", () => ({ matches: true })); // for stillness: text is drawn as it arrives
    component = new OneComponent();
  });

  it("shows an answer until its end", async () => {
    const client = new ScriptedClient();
    void render(client).ask("Well?");
    expect(render(client)).toMatchObject({ text: "", busy: true });
    client.last.say("Well.");
    await settle();
    expect(render(client)).toMatchObject({ text: "Well.", busy: true });
    client.last.complete();
    await settle();
    expect(render(client)).toMatchObject({ text: "Well.", busy: false, error: undefined });
  });

  it("begins anew with another client, in the middle of an answer too", async () => {
    const [first, second] = [new ScriptedClient(), new ScriptedClient()];
    void render(first).ask("First?");
    first.last.say("So far");
    await settle();
    render(second);
    expect(render(second)).toMatchObject({ text: "", busy: false });
    first.last.complete();
    await settle();
    void render(second).ask("Second?");
    expect(second.asked).toHaveLength(1);
    expect(render(second)).toMatchObject({ text: "", busy: true });
  });
});
