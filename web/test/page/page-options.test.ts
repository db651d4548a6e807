import { describe, expect, it } from "vitest";
import { optionsFromAddress } from "../../src/page/page-options.ts";

describe("optionsFromAddress", () => {
  it.each([
    ["?x=1#y", undefined],
    ["?transport=poll", ["long-poll"]],
    ["?transport=sse", ["sse", "long-poll"]],
    ["?transport=carrier-pigeon", undefined],
  ])("reads %s, on the page's own origin", (query, transports) => {
    const options = optionsFromAddress(new URL(`http://127.0.0.1:8080/${query}`));
    expect(options).toEqual({ url: "http://127.0.0.1:8080", ...(transports && { transports }) });
  });

  it.each([
    ["https://site.test/ev/", "https://site.test/ev"],
    ["https://site.test/a/b/index.html?x=1/2", "https://site.test/a/b"],
  ])("finds the server of %s below its path", (address, url) => {
    expect(optionsFromAddress(new URL(address)).url).toBe(url);
  });
});
