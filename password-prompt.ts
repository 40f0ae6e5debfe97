import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { Refusal } from "./command.ts";

/** Nobody reads along. */
const SILENT = new Writable({ write: (_chunk, _encoding, done) => done() });

/** A new password: asked for twice on a terminal, where it is not shown, else the first line of stdin. Throws Refusal. */
export async function readNewPassword(): Promise<string> {
  if (!process.stdin.isTTY) return readLine();
  const password = await ask("New password: ");
  if (password !== (await ask("The same again: ")))
    throw new Refusal(1, "the two are not the same: nothing is changed");
  return password;
}

async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: SILENT, terminal: true });
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

async function readLine(): Promise<string> {
  let text = "";
  for await (const chunk of process.stdin.setEncoding("utf8")) text += chunk;
  return text.split(/\r?\n/, 1)[0]!;
}
