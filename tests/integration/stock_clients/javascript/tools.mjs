// Tools, a picture and a form, for whichever client.
import { z } from "zod";

export const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

export const PERSON = z.object({ name: z.string(), age: z.number() });

export const CITY = z.object({ city: z.string() });

const RESULTS = { get_weather: "sunny, 21 °C", get_time: "12:00" };

export const resultOf = (name) => RESULTS[name];

const described = (name, description) => ({
  type: "function",
  function: {
    name,
    description,
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
});

export const TOOLS = [described("get_weather", "The weather in a city."), described("get_time", "The time in a city.")];
