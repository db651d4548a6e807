// Looks at every state of the answer that a person could see, from the first one on, and notes what should never be seen.
(() => {
  const watched = { looks: 0, wrong: [], restarts: 0, end: null };
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

  // How the last answer ended. An idle connection may be lost right after it: that isn't a state of the answer.
  function noteEnd(status) {
    const { state } = status.dataset;
    if (state !== "idle") watched.end = ["done", "cancelled", "error"].includes(state) ? state : null;
  }

  addEventListener("evenflow-event", ({ detail }) => {
    if (detail.type !== "restarted") return;
    watched.restarts += 1;
    mayShrink = true;
  });
  const attachShadow = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const shadow = attachShadow.call(this, options);
    if (this.localName === "evenflow-chat") {
      new MutationObserver(() => look(this, shadow)).observe(shadow, { subtree: true, childList: true, characterData: true });
      new MutationObserver((changes) => {
        for (const { target } of changes) if (target.dataset.testid === "status") noteEnd(target);
      }).observe(shadow, { subtree: true, attributeFilter: ["data-state"] });
    }
    return shadow;
  };
})();
