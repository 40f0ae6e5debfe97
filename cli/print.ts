import { fstatSync, writeFileSync } from "node:fs";

// A reader that has left, such as `head`, is no failure; a full disk is.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", ({ code, message }: NodeJS.ErrnoException) => {
    if (code === "EPIPE") return;
    process.exitCode = 1;
    if (stream === process.stdout) process.stderr.write(`cannot write the output: ${message}\n`);
  });

/** Prints all of the text to stdout. The stream of Node does not notice that a file has taken only a part. */
export function print(text: string): void {
  if (!fstatSync(1).isFile()) return void process.stdout.write(text);
  try {
    writeFileSync(1, text);
  } catch (error) {
    process.stdout.emit("error", error);
  }
}
