const THRESHOLD = 0.75;
const MAX_LENGTH = 63;

/** The most similar name, for a hint; null when none is similar. */
export function similarTo(name: string, names: Iterable<string>): string | null {
  if (name.length > MAX_LENGTH) return null;
  let best: string | null = null;
  let bestScore = THRESHOLD;
  for (const each of names) {
    const longer = Math.max(name.length, each.length);
    // The difference in length is a lower bound of the distance.
    if (Math.min(name.length, each.length) / longer < bestScore) continue;
    const score = 1 - distance(name, each) / longer;
    if (score < bestScore) continue;
    best = each;
    bestScore = score;
  }
  return best;
}

/** The Levenshtein distance: the number of characters to insert, delete or replace. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
