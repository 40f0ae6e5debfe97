import { Marked, type Token, type Tokens } from "marked";
import { Html, html } from "../gate/pages/html.ts";
import { codeBlock } from "./code.ts";

/** The URL of a link in a document; null if its target is not served. */
export type ResolveLink = (href: string) => string | null;

/** A heading, and the text below it up to the next one. */
export type Section = { readonly slug: string; readonly depth: number; readonly title: string; readonly text: string };

/** Renders GitHub's Markdown, with the anchors that GitHub gives to headings. The text is trusted: it is part of the product. */
export function renderMarkdown(text: string, resolve: ResolveLink): Html {
  const slugOf = slugs();
  const marked = new Marked({
    gfm: true,
    renderer: {
      heading({ tokens, depth, text: source }: Tokens.Heading) {
        const content = new Html(this.parser.parseInline(tokens));
        const slug = slugOf(source);
        const link = html`<a class="anchor" href="#${slug}" aria-label="Link to ${plain(tokens)}">#</a>`;
        return html`<h${depth} id="${slug}">${content}${depth > 1 ? link : null}</h${depth}>\n`.text;
      },
      link({ href, tokens }: Tokens.Link) {
        const content = new Html(this.parser.parseInline(tokens));
        const url = resolve(href);
        return (url === null ? content : html`<a href="${url}">${content}</a>`).text;
      },
      image({ href, text: about }: Tokens.Image) {
        const url = resolve(href);
        return (url === null ? html`${about}` : html`<img src="${url}" alt="${about}">`).text;
      },
      code: ({ text: code, lang }: Tokens.Code) => codeBlock(code, lang).text,
      // What is wider than the page scrolls, with the keyboard too.
      table(table: Tokens.Table) {
        const row = (cells: readonly Tokens.TableCell[], tag: "th" | "td") =>
          html`<tr>${cells.map(({ tokens }) => html`<${tag}>${new Html(this.parser.parseInline(tokens))}</${tag}>`)}</tr>\n`;
        const body = table.rows.map((cells) => row(cells, "td"));
        return html`<div class="scroll" tabindex="0"><table>
<thead>${row(table.header, "th")}</thead>
<tbody>${body}</tbody>
</table></div>\n`.text;
      },
    },
  });
  return new Html(marked.parse(text, { async: false }));
}

/** The sections of a document as plain text, for its contents and for the search. */
export function sectionsOf(text: string): readonly Section[] {
  const slugOf = slugs();
  const sections: { slug: string; depth: number; title: string; texts: string[] }[] = [];
  for (const token of new Marked({ gfm: true }).lexer(text)) {
    if (token.type === "heading") {
      const { depth, text: source, tokens } = token as Tokens.Heading;
      sections.push({ slug: slugOf(source), depth, title: plain(tokens), texts: [] });
    } else sections.at(-1)?.texts.push(plain([token]));
  }
  return sections.map(({ texts, ...section }) => ({ ...section, text: texts.join(" ").replace(/\s+/g, " ").trim() }));
}

/** The text of tokens, without markup. */
const plain = (tokens: readonly Token[]): string => tokens.map(plainText).join("");

function plainText(token: Token): string {
  if (token.type === "table") {
    const { header, rows } = token as Tokens.Table;
    return [header, ...rows]
      .flat()
      .map(({ tokens }) => ` ${plain(tokens)}`)
      .join("");
  }
  if (token.type === "list") return (token as Tokens.List).items.map(({ tokens }) => ` ${plain(tokens)}`).join("");
  if ("tokens" in token && token.tokens) return plain(token.tokens);
  return "text" in token ? token.text : " ";
}

/** The anchors of one document: `## Any database (MIGRATE=off)` is `#any-database-migrateoff`, and repeated ones are numbered. */
function slugs(): (heading: string) => string {
  const used = new Map<string, number>();
  return (heading) => {
    const slug = heading
      .trim()
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replace(/\s/g, "-");
    const count = used.get(slug) ?? 0;
    used.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  };
}
