import { made } from "../made.ts";
import { codeBlock } from "./code-block.ts";
import { dressDefinition, dressReference } from "./footnotes.ts";
import type { Images } from "./images.ts";

const TABLE = "Table";
const TASKS: Readonly<Record<string, string>> = { done: "Completed task", open: "Incomplete task" };
const ALERTS: Readonly<Record<string, string>> = {
  note: "Note",
  tip: "Tip",
  important: "Important",
  warning: "Warning",
  caution: "Caution",
};

const DRESSES: Readonly<Record<string, (element: HTMLElement, images: Images) => void>> = {
  pre: dressCode,
  table: dressTable,
  "[data-task]": dressTask,
  "[data-alert]": dressAlert,
  "[data-footnote]": dressReference,
  "[data-definition]": dressDefinition,
  "[data-image]": dressImage,
};
const DRESSED = Object.keys(DRESSES).join();

/** Makes of what Markdown has made what a reader can use: code that can be copied, tables that scroll, boxes, buttons. */
export function dress(fragment: DocumentFragment, images: Images): DocumentFragment {
  for (const element of fragment.querySelectorAll<HTMLElement>(DRESSED)) {
    for (const [selector, dressOne] of Object.entries(DRESSES)) {
      if (element.matches(selector)) dressOne(element, images);
    }
  }
  return fragment;
}

function dressCode(plain: HTMLElement): void {
  const code = plain.querySelector("code");
  plain.replaceWith(codeBlock(code?.dataset.language ?? "", (code?.textContent ?? "").replace(/\n$/, "")));
}

function dressTable(table: HTMLElement): void {
  const attributes = { tabindex: "0", role: "region", "aria-label": TABLE };
  const scroller = made("div", { class: "table-scroller", attributes });
  table.replaceWith(scroller);
  scroller.append(table);
}

function dressTask(item: HTMLElement): void {
  const isDone = item.dataset.task === "done";
  const attributes = { type: "checkbox", disabled: "", "aria-label": TASKS[isDone ? "done" : "open"] ?? "" };
  const box = made("input", { attributes: isDone ? { ...attributes, checked: "" } : attributes });
  const first = item.firstElementChild;
  (first?.localName === "p" ? first : item).prepend(box, " ");
}

function dressAlert(alert: HTMLElement): void {
  const title = ALERTS[alert.dataset.alert ?? ""] ?? "";
  alert.setAttribute("role", "note");
  alert.setAttribute("aria-label", title);
  alert.prepend(made("p", { class: "alert-title", text: title }));
}

function dressImage(place: HTMLElement, images: Images): void {
  place.replaceWith(images.element(place.dataset.image ?? "", place.textContent ?? "", place.closest("a") !== null));
}
