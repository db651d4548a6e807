/** A time in seconds, with one decimal. */
export function inSeconds(language: string, ms: number): string {
  const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  return new Intl.NumberFormat(language, digits).format(ms / 1_000);
}

/** "In 5 minutes", "in 3 hours". */
export function inTime(language: string, ms: number): string {
  const minutes = Math.ceil(ms / 60_000);
  const time = new Intl.RelativeTimeFormat(language);
  return minutes < 120 ? time.format(minutes, "minute") : time.format(Math.ceil(minutes / 60), "hour");
}

/** A day of UTC. */
export function dayOf(language: string, date: Date): string {
  return new Intl.DateTimeFormat(language, { month: "long", day: "numeric", timeZone: "UTC" }).format(date);
}
