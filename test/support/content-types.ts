import { readFile } from "node:fs/promises";

/** The committed types of the content schema, without the line that is for the formatter: what `npx content-service types` prints. */
export async function contentTypes(): Promise<string> {
  const file = await readFile(new URL("../rest-gateway/openapi/typescript/content.ts", import.meta.url), "utf8");
  return file.slice(file.indexOf("\n") + 1);
}
