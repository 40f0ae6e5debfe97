import { createInterface } from "node:readline/promises";
import { type Readable, Writable } from "node:stream";
import { CommandError } from "./command.ts";

/** Discards the echo of the terminal. */
const SILENT = new Writable({ write: (_chunk, _encoding, done) => done() });

/** Standard input of a command. */
export type Input = Readable & { readonly isTTY?: boolean };

/** Prompts twice for a new password on a terminal, without echo; otherwise reads the first line. Throws CommandError. */
export async function readNewPassword(input: Input): Promise<string> {
  if (!input.isTTY) return readLine(input);
  const password = await ask(input, "New password: ");
  if (password !== (await ask(input, "Repeat the password: ")))
    throw new CommandError(1, "the passwords do not match; nothing was changed");
  return password;
}

async function ask(input: Input, question: string): Promise<string> {
  const lines = createInterface({ input, output: SILENT, terminal: true });
  process.stderr.write(question);
  try {
    return await new Promise<string>((resolve, reject) => {
      const cancel = () => reject(new CommandError(1, "cancelled; nothing was changed"));
      lines.once("SIGINT", cancel).once("close", cancel);
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
