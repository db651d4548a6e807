import { describe, expect, it } from "vitest";
import { optionsFromAddress } from "../../src/page/page-options.ts";

describe("optionsFromAddress", () => {
  it("is a WebSocket and the plain protocol by default, on the page's own origin", () => {
    expect(optionsFromAddress(new URL("http://127.0.0.1:8080/?x=1#y"))).toEqual({
      baseUrl: "http://127.0.0.1:8080",
      transport: "auto",
      subprotocol: "evenflow.v1",
    });
  });

  it.each([
    ["?transport=poll", "long-poll", "evenflow.v1"],
    ["?protocol=compact", "auto", "evenflow.v1.compact"],
    ["?transport=carrier-pigeon&protocol=2", "auto", "evenflow.v1"],
  ])("reads %s", (query, transport, subprotocol) => {
    expect(optionsFromAddress(new URL(`http://test/${query}`))).toMatchObject({ transport, subprotocol });
  });
});
