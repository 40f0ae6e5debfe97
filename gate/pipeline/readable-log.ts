import { styleText } from "node:util";

const COLOURS = { fatal: "red", error: "red", warn: "yellow", info: "green", debug: "blue", trace: "gray" } as const;

/** What a terminal would obey: an error may quote what a client has sent. */
const CONTROLS = /[\p{Cc}--[\n\t]]/gv;

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
  const { stack, ...ofError } = Object(err);
  const more = stack === undefined ? { ...others, err } : { ...others, err: ofError };
  const name = styleText(COLOURS[level as keyof typeof COLOURS] ?? "white", String(level).toUpperCase());
  const fieldsText = JSON.stringify(more);
  const rest = fieldsText === "{}" ? "" : ` ${styleText("gray", shown(fieldsText))}`;
  const trace = typeof stack === "string" ? `${shown(stack).replace(/^/gm, "    ")}\n` : "";
  return `[${String(time).slice(11, 23)}] ${name}: ${styleText("cyan", shown(String(msg)))}${rest}\n${trace}`;
}

const shown = (text: string): string => text.replace(CONTROLS, "?");
