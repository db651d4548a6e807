// Looks at every state of the answer that a person could see, from the first one on, and notes what should never be seen.
(() => {
  const watched = { looks: 0, wrong: [], restarts: 0, state: null, end: null };
  Object.defineProperty(window, "watched", { value: watched });
  let [before, mayShrink] = ["", false];

  // Markdown changes marks and white space, but neither letters nor their order.
  const letters = (text) => text.replace(/[^\p{L}\p{N}]/gu, "");

  function look(chat, shadow) {
    const answer = [...shadow.querySelectorAll('[data-testid="answer"]')].at(-1);
    if (answer === undefined || answer !== watched.answer) [before, watched.answer] = ["", answer];
    if (answer === undefined) return;
    const text = chat.lastText;
    watched.looks += 1;
    if (!text.startsWith(before) && !mayShrink) watched.wrong.push(["was taken back", before, text]);
    if (!letters(text).startsWith(letters(answer.textContent))) watched.wrong.push(["is shown wrongly", text, answer.textContent]);
    [before, mayShrink] = [text, false];
  }

  // How the last answer ended stands, whatever becomes of the connection when nothing is asked.
  addEventListener("evenflow-ask", () => {
    watched.end = null;
  });
  addEventListener("evenflow-event", ({ detail }) => {
    if (detail.type !== "restarted") return;
    watched.restarts += 1;
    mayShrink = true;
  });

  function note(state) {
    watched.state = state;
    if (["done", "cancelled", "error"].includes(state)) watched.end = state;
  }

  const attachShadow = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const shadow = attachShadow.call(this, options);
    if (this.localName === "evenflow-chat") {
      new MutationObserver(() => look(this, shadow)).observe(shadow, { subtree: true, childList: true, characterData: true });
      new MutationObserver((changes) => {
        for (const { target } of changes) if (target.dataset.testid === "status") note(target.dataset.state);
      }).observe(shadow, { subtree: true, attributeFilter: ["data-state"] });
    }
    return shadow;
  };
})();
