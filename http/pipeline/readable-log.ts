import { styleText } from "node:util";

const COLOURS = { fatal: "red", error: "red", warn: "yellow", info: "green", debug: "blue", trace: "gray" } as const;

/**
 * A line of the log as text for a terminal:
 *
 *   [03:47:14.123] INFO: the service is ready {"port":3000}
 *
 * The stack of an error follows on lines of its own. Another line, which is no JSON, stays as it is.
 */
export function readableLine(line: string): string {
  let fields: Record<string, any>;
  try {
    fields = JSON.parse(line);
  } catch {
    return line;
  }
  const { level, time, pid: _, hostname: __, msg = "", err, ...others } = fields;
  const { stack, ...ofError } = err ?? {};
  const more = err === undefined ? others : { ...others, err: ofError };
  const name = styleText(COLOURS[level as keyof typeof COLOURS] ?? "white", String(level).toUpperCase());
  const rest = Object.keys(more).length > 0 ? ` ${styleText("gray", JSON.stringify(more))}` : "";
  const trace = typeof stack === "string" ? `${stack.replace(/^/gm, "    ")}\n` : "";
  return `[${String(time).slice(11, 23)}] ${name}: ${styleText("cyan", msg)}${rest}\n${trace}`;
}
