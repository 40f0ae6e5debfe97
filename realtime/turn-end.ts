let ends: (() => void)[] = [];

/** Calls back when this turn of the event loop has ended: once for all sockets. */
export function atEndOfTurn(end: () => void): void {
  if (ends.push(end) > 1) return;
  process.nextTick(() => {
    const all = ends;
    ends = [];
    for (const each of all) each();
  });
}
