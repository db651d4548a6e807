import { made } from "../made.ts";
import type { Strings } from "../strings.ts";
import { codeBlock } from "./code-block.ts";
import { dressDefinition, dressReference } from "./footnotes.ts";
import type { Images } from "./images.ts";
import type { Work } from "./work.ts";

const ALERTS = {
  note: "alertNote",
  tip: "alertTip",
  important: "alertImportant",
  warning: "alertWarning",
  caution: "alertCaution",
} as const satisfies Readonly<Record<string, keyof Strings>>;

type Dress = (element: HTMLElement, strings: Strings, images: Images) => void;

const DRESSES: Readonly<Record<string, Dress>> = {
  pre: dressCode,
  table: dressTable,
  "[data-task]": dressTask,
  "[data-alert]": dressAlert,
  "[data-footnote]": dressReference,
  "[data-definition]": dressDefinition,
  "[data-image]": dressImage,
};
const DRESSED = Object.keys(DRESSES).join();
const ELEMENTS_PER_STEP = 50;

/** Adds controls and styles to rendered Markdown: code to copy, tables that scroll, boxes, buttons. */
export function* dress(fragment: DocumentFragment, strings: Strings, images: Images): Work {
  for (const [position, element] of fragment.querySelectorAll<HTMLElement>(DRESSED).entries()) {
    if (position % ELEMENTS_PER_STEP === ELEMENTS_PER_STEP - 1) yield;
    for (const [selector, dressOne] of Object.entries(DRESSES)) {
      if (element.matches(selector)) dressOne(element, strings, images);
    }
  }
}

function dressCode(plain: HTMLElement, strings: Strings): void {
  const code = plain.querySelector("code");
  const text = (code?.textContent ?? "").replace(/\n$/, "");
  plain.replaceWith(codeBlock(code?.dataset.language ?? "", text, strings));
}

function dressTable(table: HTMLElement, strings: Strings): void {
  const attributes = { tabindex: "0", role: "group", "aria-label": strings.table };
  const scroller = made("div", { class: "table-scroller", attributes });
  table.replaceWith(scroller);
  scroller.append(table);
}

function dressTask(item: HTMLElement, { completedTask, incompleteTask }: Strings): void {
  const isDone = item.dataset.task === "done";
  const attributes = { type: "checkbox", disabled: "", "aria-label": isDone ? completedTask : incompleteTask };
  const box = made("input", { attributes: isDone ? { ...attributes, checked: "" } : attributes });
  const first = item.firstElementChild;
  (first?.localName === "p" ? first : item).prepend(box, " ");
}

function dressAlert(alert: HTMLElement, strings: Strings): void {
  const title = alertTitle(alert.dataset.alert ?? "", strings);
  alert.setAttribute("role", "note");
  alert.setAttribute("aria-label", title);
  alert.prepend(made("p", { class: "alert-title", text: title }));
}

function dressImage(place: HTMLElement, _strings: Strings, images: Images): void {
  place.replaceWith(images.element(place.dataset.image ?? "", place.textContent ?? "", place.closest("a") !== null));
}

/** The name of an alert; empty for any other block. */
export function alertTitle(kind: string, strings: Strings): string {
  return Object.hasOwn(ALERTS, kind) ? strings[ALERTS[kind as keyof typeof ALERTS]] : "";
}
