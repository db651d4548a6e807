import type { Answer, Client } from "@evenflow/client";
import { useCallback, useEffect, useRef, useState } from "react";
// The smoother is in no package: copy its folder along, or draw each delta as it comes.
import { browserScreen } from "../../src/smoother/screen.ts";
import { SmoothText } from "../../src/smoother/smooth-text.ts";

/** What a component shows of the answer to the last question. */
export interface EvenflowAnswer {
  readonly text: string;
  readonly busy: boolean;
  /** What ended the answer before its time; `undefined` while all is well. */
  readonly error: unknown;
}

const NOTHING: EvenflowAnswer = { text: "", busy: false, error: undefined };

/**
 * Asks an Evenflow server, and renders the answer evenly:
 *
 *     const { text, busy, ask, stop } = useEvenflow(client);
 *
 * `client` is made once, outside of the component: `const client = connect()`. Unmounting leaves the answer to the server's
 * grace period; it does not stop the model. So does another client, with which the hook begins anew.
 */
export function useEvenflow(client: Client) {
  const [answer, setAnswer] = useState(NOTHING);
  const current = useRef<Answer | null>(null);
  const stop = useCallback(() => {
    void current.current?.stop();
  }, []);

  const ask = useCallback(
    async (question: string): Promise<void> => {
      if (current.current !== null) return;
      const asked = client.ask(question);
      current.current = asked;
      setAnswer({ ...NOTHING, busy: true });
      let error: unknown;
      try {
        await show(asked, (text) => {
          if (current.current === asked) setAnswer({ text, busy: true, error: undefined });
        });
      } catch (thrown) {
        error = thrown;
      }
      if (current.current !== asked) return;
      current.current = null;
      setAnswer(({ text }) => ({ text, busy: false, error }));
    },
    [client],
  );

  useEffect(() => {
    // What is still on its way changes nothing any more once the component is gone, or has another client.
    return () => {
      current.current = null;
      setAnswer(NOTHING);
    };
  }, [client]);
  return { ...answer, ask, stop };
}

/** Tells how far the text of `answer` is on the screen, frame by frame, until all of it is. */
async function show(answer: Answer, draw: (text: string) => void): Promise<void> {
  let [arrived, drawn] = ["", ""];
  const smooth = new SmoothText(browserScreen, (piece) => {
    drawn += piece;
    draw(drawn);
  });
  try {
    for await (const event of answer) {
      if (event.type === "delta") {
        arrived += event.text;
        smooth.push(event.text);
      } else if (event.type === "restarted") {
        arrived = drawn = arrived.slice(0, event.keep);
        smooth.restart();
        draw(drawn);
      }
    }
  } finally {
    await smooth.end();
  }
}
