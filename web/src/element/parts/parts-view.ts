import type { ChatPart, ChatTool } from "../chat-client.ts";
import type { Extras } from "../extras/extras.ts";
import { made } from "../made.ts";
import { ReasoningView } from "./reasoning-view.ts";
import { SourceList } from "./source-list.ts";
import { TextView } from "./text-view.ts";
import { ToolView } from "./tool-view.ts";

type PartView = TextView | ReasoningView | ToolView;

/** The parts of an answer, in their order; its sources are a separate list below. */
export class PartsView {
  // The Announcer announces whole sentences instead.
  readonly element = made("div", {
    class: "parts",
    testId: "answer",
    attributes: { "aria-live": "off", "aria-busy": "true", "data-steps": "0" },
  });
  readonly sources: SourceList;
  readonly #extras: Extras;
  readonly #onDrawn: () => void;
  #views: PartView[] = [];
  /** The views of parts other than text, by their positions. */
  readonly #placed = new Map<number, PartView>();
  #steps = 0;

  /** `onDrawn` is called whenever something has grown on the screen. */
  constructor(extras: Extras, onDrawn: () => void) {
    this.#extras = extras;
    this.sources = new SourceList(extras.strings);
    this.#onDrawn = () => {
      this.#steps += 1;
      this.element.dataset.steps = String(this.#steps);
      onDrawn();
    };
  }

  /** Whether it shows nothing. */
  get isEmpty(): boolean {
    return this.#views.length === 0;
  }

  /** Adds text of the answer. Earlier sources don't split it. */
  append(text: string): void {
    if (text !== "") this.#openText().append(text);
  }

  /** Shows a new or grown part. */
  show(position: number, part: ChatPart): void {
    if (part.type === "source") this.sources.add(part.url, part.title);
    if (part.type === "reasoning") this.#showReasoning(position, part.text);
    if (part.type === "refusal") this.#showRefusal(position, part.text);
    if (part.type === "tool") this.#showTool(position, part);
    this.#onDrawn();
  }

  /** Replaces all parts with these, at once. */
  replace(parts: readonly ChatPart[]): void {
    this.element.replaceChildren();
    this.sources.clear();
    this.#placed.clear();
    this.#views = [];
    for (const [position, part] of parts.entries()) {
      if (part.type !== "text") this.show(position, part);
      else if (part.text !== "") this.#openText().appendAtOnce(part.text);
    }
  }

  /** Ends the answer; resolves once all of it is rendered. */
  async end(): Promise<void> {
    await Promise.all(this.#views.map((view) => view.end()));
    this.element.setAttribute("aria-busy", "false");
  }

  #openText(): TextView {
    const last = this.#views.at(-1);
    return last instanceof TextView ? last : this.#add(new TextView(this.#extras, this.#onDrawn));
  }

  #showReasoning(position: number, text: string): void {
    const known = this.#placed.get(position);
    const view = known instanceof ReasoningView ? known : this.#add(new ReasoningView(this.#extras.strings), position);
    view.show(text);
  }

  #showRefusal(position: number, text: string): void {
    const known = this.#placed.get(position);
    const view = known instanceof TextView ? known : this.#add(new TextView(this.#extras, this.#onDrawn), position);
    view.replace(text);
  }

  #showTool(position: number, tool: ChatTool): void {
    const known = this.#placed.get(position);
    const view = known instanceof ToolView ? known : this.#add(new ToolView(this.#extras.strings), position);
    view.show(tool);
  }

  /** Adds a view after the others. Of these, only tools may still receive something. */
  #add<V extends PartView>(view: V, position?: number): V {
    const last = this.#views.at(-1);
    if (!(last instanceof ToolView)) void last?.end();
    this.#views.push(view);
    if (position !== undefined) this.#placed.set(position, view);
    this.element.append(view.element);
    return view;
  }
}
