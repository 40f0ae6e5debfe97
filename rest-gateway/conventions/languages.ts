/** At most this many languages of a header are used. */
const MAX_LANGUAGES = 5;

/**
 * The languages that a browser prefers, in the form of folders of templates.
 *
 *   languagesOf("pt-BR,pt;q=0.9,en;q=0.8")  // ["pt-br", "pt", "en"]
 */
export function languagesOf(header: string | undefined): readonly string[] {
  const ranges = (header ?? "")
    .slice(0, 200)
    .toLowerCase()
    .split(",")
    .map((range) => range.split(";"));
  const weighed = ranges.map(([tag = "", quality = ""]) => ({
    tag: tag.trim(),
    weight: Number(/^\s*q=([01](?:\.\d{1,3})?)\s*$/.exec(quality)?.[1] ?? 1),
  }));
  const known = weighed.filter(({ tag, weight }) => weight > 0 && /^[a-z]{2,3}(-[a-z0-9]{2,8})*$/.test(tag));
  return known
    .sort((a, b) => b.weight - a.weight)
    .slice(0, MAX_LANGUAGES)
    .map(({ tag }) => tag);
}
