declare const process: { cpuUsage(): { user: number; system: number } };

/** Milliseconds that the processor has worked for this process; what runs beside it doesn't count. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
