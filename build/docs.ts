import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, posix, resolve } from "node:path";
import { ASSETS } from "../pages/assets.ts";
import { pageOf, searchOf } from "../pages/document.ts";
import {
  type DocsOptions,
  docsOf,
  listImages,
  markdownPath,
  ROOT,
  SCHEMA,
  SEARCH,
  textOf,
} from "../pages/documents.ts";
import { LIST, listGroups, listOf } from "../parts/site/contents.ts";

const HELP = `node build/docs.ts <directory>

Writes the documentation as HTML and Markdown, with its search, into a new directory. Any server of files can publish it, below any path.
`;

const START = "/docs/readme";

/** `/docs/readme` → `index.html`, `/docs/tables` → `docs/tables.html`; other paths are files already. */
export const fileOf = (path: string): string =>
  path === START ? "index.html" : posix.extname(path) === "" ? `${path.slice(1)}.html` : path.slice(1);

/** The text of a page whose links are relative, so that the folder can be published below any path. */
export function withRelativeLinks(text: string, file: string): string {
  const relative = (path: string) => posix.relative(posix.dirname(file), fileOf(path));
  return text.replaceAll(
    / (href|src|data-index)="(\/[^"#]*)(#[^"]*)?"/g,
    (_, name, path, anchor = "") => ` ${name}="${relative(path === "/" ? START : path)}${anchor}"`,
  );
}

/** All files of the documentation: name → content. */
export function renderDocs(): ReadonlyMap<string, string | Buffer> {
  const options: DocsOptions = {
    groups: listGroups(),
    schema: join(ROOT, "demo/schema.graphql"),
    links: [{ path: START, name: "Documentation" }],
  };
  const pages = docsOf(options).map((doc): [string, string] => {
    const file = fileOf(doc.path);
    return [file, withRelativeLinks(pageOf(doc, options), file)];
  });
  const sections = JSON.parse(searchOf(options)) as [path: string, ...texts: string[]][];
  const search = sections.map(([path, ...texts]) => {
    const [page = "", anchor] = path.split("#");
    const url = posix.relative(posix.dirname(fileOf(SEARCH)), fileOf(page));
    return [anchor === undefined ? url : `${url}#${anchor}`, ...texts];
  });
  return new Map<string, string | Buffer>([
    ...pages,
    ...docsOf(options).map((doc): [string, string] => [fileOf(markdownPath(doc)), textOf(doc.file)]),
    [fileOf(LIST), listOf(options.groups)],
    ...listImages().map(({ path, file }): [string, Buffer] => [fileOf(path), readFileSync(join(ROOT, file))]),
    ...ASSETS.map(({ name, file }): [string, string] => [`assets/${name}`, readFileSync(file, "utf8")]),
    [fileOf(SEARCH), JSON.stringify(search)],
    [fileOf(SCHEMA), readFileSync(options.schema!, "utf8")],
  ]);
}

function write(target: string): void {
  for (const [name, text] of renderDocs()) {
    mkdirSync(dirname(join(target, name)), { recursive: true });
    writeFileSync(join(target, name), text);
  }
}

if (import.meta.main) {
  const [target] = process.argv.slice(2);
  if (target === undefined || target.startsWith("-")) process.stdout.write(HELP);
  else if (existsSync(target)) {
    process.stderr.write(`${target} exists already: name a new directory\n`);
    process.exitCode = 2;
  } else write(resolve(target));
}
