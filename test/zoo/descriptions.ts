import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Ajv2020 } from "ajv/dist/2020.js";
import { type Cell, type Fault, parseExactly, type Zoo } from "./zoo.ts";

const run = promisify(execFile);

/** Formats of JSON Schema, RFC 3339 and the registry of OpenAPI. Another format is a fault. */
const FORMATS: Readonly<Record<string, true | RegExp>> = {
  ...{ int16: true, int32: true, int64: true, float: true, double: true },
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  date: /^\d{4}-\d\d-\d\d$/,
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/,
  "date-time-local": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?$/,
  "time-local": /^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?$/,
};

/** What the descriptions of /rest/v1 say differently from what it sends and accepts. */
export async function* descriptionFaults(zoo: Zoo): AsyncGenerator<Fault> {
  const { schemas } = (await zoo.rest("openapi.json")).json.components;
  const { definitions } = (await zoo.rest("")).json;
  const documents = [
    ["OpenAPI", new Ajv2020({ strict: true, allowUnionTypes: true, formats: FORMATS }), schemas.cages],
    ["OpenAPI", new Ajv2020({ strict: true, allowUnionTypes: true, formats: FORMATS }), schemas.cages_insert],
    // Formats of PostgREST are the names of types.
    ["Swagger", new Ajv2020({ strict: false, validateFormats: false }), definitions.cages],
  ] as const;
  for (const [what, ajv, { properties }] of documents)
    for (const cell of zoo.cells) {
      const isValid = ajv.compile(properties[cell.column]);
      if (!isValid(JSON.parse(cell.json))) yield [what, cell, ajv.errorsText(isValid.errors)];
    }
  yield* await typeFaults(zoo);
}

/** Compiles a program in which each value has the type of its column. */
async function typeFaults({ cells, rest }: Zoo): Promise<Fault[]> {
  const folder = await mkdtemp(join(process.cwd(), ".types-"));
  try {
    const lines = ["Row", "Insert"].flatMap((kind) =>
      cells.map(
        ({ id, column, json }) =>
          `export const ${kind}${id}: Cages["${kind}"]["${column}"] = ${JSON.stringify(parseExactly(json))};`,
      ),
    );
    const imports = 'import type { Database } from "./types.ts"; type Cages = Database["public"]["Tables"]["cages"];';
    await writeFile(join(folder, "values.ts"), [imports, ...lines].join("\n"));
    await writeFile(join(folder, "types.ts"), (await rest("types.ts")).text);
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ extends: "../tsconfig.json", include: ["*.ts"] }));
    const compiled = run("node_modules/.bin/tsc", ["--noEmit", "--pretty", "false", "-p", folder]);
    // Another program that fails, such as one without memory, has no error of a type.
    const { stdout } = await compiled.catch((error) => {
      if (!String(error.stdout).includes(": error TS")) throw error;
      return error;
    });
    return [...String(stdout).matchAll(/(\w+)\.ts\((\d+),\d+\): (.*)/g)].map(([, file, line, message]): Fault => {
      const i = Number(line) - 2;
      const cell: Cell | undefined = file === "values" ? cells[i % cells.length] : undefined;
      if (!cell) throw new Error(stdout);
      return ["TypeScript", cell, message];
    });
  } finally {
    await rm(folder, { recursive: true });
  }
}
