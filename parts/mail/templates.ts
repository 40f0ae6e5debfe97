import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { ConfigError } from "../../config/config.ts";
import { readText } from "../../config/text-file.ts";
import { escapeMarkup } from "../../gate/pipeline/response.ts";
import { KINDS, type Mail, type MailKind, type MailValues, VARIABLES } from "./kinds.ts";

/** A template: `reset.txt` in the folder `mail` of an application, or in its folder `mail/de` for German. */
type Source = { readonly file: string; readonly text: string };

/** The language of the templates that are in no folder of a language. */
const LANGUAGE = "en";

const FOLDER = join(import.meta.dirname, "templates");
const LAYOUT = "layout.html";
const LAYOUT_VARIABLES = ["subject", "content", "language", "service", "url"];

/**
 * The e-mails of the service, as the files of the application say, and otherwise its own:
 *
 * - `reset.txt`: the first line is the subject, and the text follows after an empty line.
 * - `reset.html`: the content of the HTML part. Without it, the paragraphs of the text are used.
 * - `layout.html`: the document around the content of every e-mail.
 *
 * `{{email}}` stands for a value. A paragraph that is only `{{link}}` becomes a button.
 */
export class Templates {
  /** By language, "" for the usual one, and name of the file. */
  readonly #files = new Map<string, ReadonlyMap<string, Source>>();

  /** `folder` is that of the application. Throws ConfigError, which names the file. */
  constructor(folder: string | null) {
    this.#files.set("", new Map([...read(FOLDER, ""), ...(folder === null ? [] : read(folder, "mail/"))]));
    if (folder === null) return;
    for (const language of languagesIn(folder))
      this.#files.set(language, read(join(folder, language), `mail/${language}/`));
  }

  /** The languages of the application's templates, after the usual one. */
  get languages(): readonly string[] {
    return [...this.#files.keys()];
  }

  /** The subject and both parts of an e-mail, in the first of these languages that has a template. */
  render(
    kind: MailKind,
    languages: readonly string[],
    values: MailValues,
  ): Pick<Mail, "language" | "subject" | "text" | "html"> {
    const found = languages.find((name) => name === LANGUAGE || this.#files.get(name)?.has(`${kind}.txt`)) ?? "";
    const language = this.#files.has(found) ? found : "";
    const [subject = "", ...rest] = this.#find(language, `${kind}.txt`)!.text.split(/\r?\n/);
    const filledSubject = fill(subject, values).replace(/\s+/g, " ").trim();
    const text = `${fill(rest.join("\n"), values).trim()}\n`;
    const own = this.#files.get(language)!.get(`${kind}.html`);
    const content = own ? fill(own.text, escaped(values)) : paragraphsOf(rest.join("\n"), values, filledSubject);
    const html = fill(this.#find(language, LAYOUT)!.text, {
      ...escaped({ ...values, subject: filledSubject, language: language || LANGUAGE }),
      content,
    });
    return { language: language || LANGUAGE, subject: filledSubject, text, html };
  }

  #find(language: string, name: string): Source | undefined {
    return this.#files.get(language)?.get(name) ?? this.#files.get("")!.get(name);
  }
}

/** Folders such as `de` and `pt-BR`, in lower case as in `languagesOf`. */
const languagesIn = (folder: string): readonly string[] =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && /^[a-z]{2,3}(-[a-z0-9]{2,8})*$/.test(entry.name))
    .map(({ name }) => name);

/** The files of a folder by name. `place` is its path for people. */
function read(folder: string, place: string): ReadonlyMap<string, Source> {
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => /\.(txt|html)$/.test(name)) : [];
  return new Map(
    names.map((name) => [name, checked({ file: place + name, text: readText(join(folder, name)) }, name)]),
  );
}

function checked(source: Source, name: string): Source {
  const { file, text } = source;
  const isLayout = name === LAYOUT;
  if (!isLayout && !KINDS.some((kind) => name === `${kind}.txt` || name === `${kind}.html`))
    throw new ConfigError(
      `${file} is not a template: the names are ${KINDS.join(", ")}, with .txt or .html, and ${LAYOUT}`,
    );
  const known: readonly string[] = isLayout ? LAYOUT_VARIABLES : VARIABLES;
  const unknown = [...text.matchAll(PLACE)].map(([, found]) => found!).find((found) => !known.includes(found));
  if (unknown !== undefined)
    throw new ConfigError(
      `${file} names {{${unknown}}}: the values are ${known.map((each) => `{{${each}}}`).join(", ")}`,
    );
  if (isLayout && !text.includes("{{content}}")) throw new ConfigError(`${file} must have {{content}}`);
  if (name.endsWith(".txt") && !/^[^\r\n]*\S[^\r\n]*\r?\n[ \t]*\r?\n[\s\S]*\S/.test(text))
    throw new ConfigError(`${file} must have a subject in its first line, an empty line, and a text`);
  return source;
}

const PLACE = /\{\{\s*([^{}]*?)\s*\}\}/g;

const fill = (text: string, values: Readonly<Record<string, string>>): string =>
  text.replace(PLACE, (_, name: string) => values[name] ?? "");

const escaped = (values: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, escapeMarkup(value)]));

/** The HTML part of a text. */
function paragraphsOf(text: string, values: MailValues, label: string): string {
  const paragraphs = text.split(/\n\s*\n/).map((each) => each.trim());
  return paragraphs
    .filter((each) => each !== "")
    .map((each) => {
      if (each !== "{{link}}") return `<p>${fill(escapeMarkup(each), escaped(values)).replace(/\n/g, "<br>")}</p>`;
      const link = escapeMarkup(values.link);
      return `<p><a class="button" href="${link}">${escapeMarkup(label)}</a></p>\n<p class="link">${link}</p>`;
    })
    .join("\n");
}
