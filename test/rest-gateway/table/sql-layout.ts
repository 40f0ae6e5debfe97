const QUERIES = /^(select|with|insert|update|delete)\b/;
/** What begins a line of a query. */
const CLAUSES = /^ (?=(from|left join|where|group by|order by|limit|offset|set|on conflict|returning|select)\b)/;
const QUOTED = /^("([^"]|"")*"|'([^']|'')*')/;

/** One line of SQL as lines for readers: each clause begins one, and what stands in brackets is indented. */
export function layOut(sql: string): string {
  /** Whether each open bracket holds a query. */
  const brackets: boolean[] = [];
  const newLine = () => `\n${"  ".repeat(brackets.filter((isQuery) => isQuery).length)}`;
  let text = "";
  for (let at = 0; at < sql.length; ) {
    const rest = sql.slice(at);
    const quoted = QUOTED.exec(rest)?.[0];
    const sign = quoted ?? sql[at]!;
    at += sign.length;
    if (sign === "(") {
      brackets.push(QUERIES.test(sql.slice(at)));
      text += brackets.at(-1) ? `(${newLine()}` : "(";
    } else if (sign === ")") {
      text += brackets.pop() ? `${newLine()})` : ")";
    } else text += brackets.at(-1) !== false && CLAUSES.test(rest) ? newLine() : sign;
  }
  return text;
}
