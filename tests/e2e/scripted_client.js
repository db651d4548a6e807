/**
 * Gives the page's <evenflow-chat> a client that answers every question with `pieces`, one every `gapMs`; a piece that is no
 * text is an event of its own. `resumes`: a question whose answer a reload has interrupted.
 */
({ pieces, gapMs, hangs, fails, resumes }) => {
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const answer = (question) => {
    let stopped = false;
    return {
      question,
      responseId: null,
      stop() {
        stopped = true;
      },
      async *[Symbol.asyncIterator]() {
        yield { type: "transport", transport: "websocket", fallback: false };
        yield { type: "accepted", responseId: "r1", messageId: "m1" };
        let index = 0;
        for (const piece of pieces) {
          if (stopped) break;
          await pause(gapMs);
          yield typeof piece === "string" ? { type: "delta", text: piece, from: index, index } : piece;
          index += 1;
        }
        if (fails) throw Object.assign(new Error("no route"), { kind: "connection" });
        while (hangs && !stopped) await pause(10);
        const finishReason = stopped ? "cancelled" : "stop";
        yield { type: "completed", finishReason, usage: { completion_tokens: index }, degraded: false };
      },
    };
  };
  document.querySelector("evenflow-chat").client = {
    ask: answer,
    resumable: resumes === undefined ? null : answer(resumes),
    transport: "websocket",
    connection: "open",
    on: () => () => {},
  };
};
