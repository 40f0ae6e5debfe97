/**
 * The value of a default that Postgres prints, when it is a plain one.
 *
 *   constantOf("'DRAFT'::public.article_status")  // "DRAFT"
 *   constantOf("10")                              // 10
 *   constantOf("now()")                           // undefined
 */
export function constantOf(expression: string): string | number | boolean | undefined {
  const quoted = /^'([A-Za-z_]\w*)'::/.exec(expression);
  if (quoted) return quoted[1];
  if (/^-?\d{1,9}$/.test(expression)) return Number(expression);
  if (/^(true|false)$/.test(expression)) return expression === "true";
  return undefined;
}
