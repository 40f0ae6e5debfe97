import { createInterface } from "node:readline/promises";
import { type Readable, Writable } from "node:stream";
import { Refusal } from "./command.ts";

/** Nobody reads along. */
const SILENT = new Writable({ write: (_chunk, _encoding, done) => done() });

/** Where a command is typed into. */
export type Input = Readable & { readonly isTTY?: boolean };

/** A new password: asked for twice on a terminal, where it is not shown, else the first line of `input`. Throws Refusal. */
export async function readNewPassword(input: Input): Promise<string> {
  if (!input.isTTY) return readLine(input);
  const password = await ask(input, "New password: ");
  if (password !== (await ask(input, "The same again: ")))
    throw new Refusal(1, "the two are not the same: nothing is changed");
  return password;
}

async function ask(input: Input, question: string): Promise<string> {
  const lines = createInterface({ input, output: SILENT, terminal: true });
  process.stderr.write(question);
  try {
    return await new Promise<string>((resolve, reject) => {
      const giveUp = () => reject(new Refusal(1, "nothing is changed"));
      lines.once("SIGINT", giveUp).once("close", giveUp);
      lines.question("").then(resolve, reject);
    });
  } finally {
    lines.close();
    process.stderr.write("\n");
  }
}

async function readLine(input: Input): Promise<string> {
  let text = "";
  for await (const chunk of input.setEncoding("utf8")) text += chunk;
  return text.split(/\r?\n/, 1)[0]!;
}
