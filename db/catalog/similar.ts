const MAX_LENGTH = 63;
const MAX_DIFFERENCES = 4;
/** A shorter name is not taken as the beginning of another. */
const MIN_BEGINNING = 3;

/**
 * The most similar name; null when none is similar. Capitals and underscores do not count, and one in three characters may
 * differ, four at most:
 *
 *   similarTo("titel", ["title", "content"])     // title
 *   similarTo("createdAt", ["created_at"])       // created_at
 *   similarTo("desc", ["description"])           // description, which begins with it
 */
export function similarTo(name: string, names: Iterable<string>): string | null {
  if (name.length > MAX_LENGTH) return null;
  const wanted = plain(name);
  let best: string | null = null;
  let bestRank = Number.POSITIVE_INFINITY;
  for (const each of names) {
    const rank = rankOf(wanted, plain(each));
    if (rank === null || rank >= bestRank) continue;
    best = each;
    bestRank = rank;
  }
  return best;
}

const plain = (name: string) => name.toLowerCase().replaceAll("_", "");

/** The number of differences; null for names that are not similar. */
function rankOf(wanted: string, name: string): number | null {
  const longer = Math.max(wanted.length, name.length);
  const shorter = Math.min(wanted.length, name.length);
  const allowed = longer < MIN_BEGINNING ? 0 : Math.min(Math.max(1, Math.floor(longer / 3)), MAX_DIFFERENCES);
  // The difference in length is a lower bound of the distance.
  const differences = longer - shorter > allowed ? null : distance(wanted, name);
  if (differences !== null && differences <= allowed) return differences;
  const begins = shorter >= MIN_BEGINNING && (wanted.startsWith(name) || name.startsWith(wanted));
  return begins ? MAX_LENGTH + longer - shorter : null;
}

/** The number of characters to insert, delete, replace, or swap with the next one. */
export function distance(a: string, b: string): number {
  let older: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const isSwapped = j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = isSwapped ? older[j - 2]! + 1 : replaced;
      next.push(Math.min(replaced, swapped, row[j]! + 1, next[j - 1]! + 1));
    }
    older = row;
    row = next;
  }
  return row[b.length]!;
}
