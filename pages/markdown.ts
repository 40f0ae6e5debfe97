import { Marked, type Tokens } from "marked";
import { Html, html } from "../http/pages/html.ts";

/** The URL of a link in a document; null if its target is not served. */
export type ResolveLink = (href: string) => string | null;

/** Renders GitHub's Markdown, with the anchors that GitHub gives to headings. The text is trusted: it is part of the product. */
export function renderMarkdown(text: string, resolve: ResolveLink): Html {
  const slugOf = slugs();
  const marked = new Marked({
    gfm: true,
    renderer: {
      heading({ tokens, depth, text: source }: Tokens.Heading) {
        const content = new Html(this.parser.parseInline(tokens));
        return html`<h${depth} id="${slugOf(source)}">${content}</h${depth}>\n`.text;
      },
      link({ href, tokens }: Tokens.Link) {
        const content = new Html(this.parser.parseInline(tokens));
        const url = resolve(href);
        return (url === null ? content : html`<a href="${url}">${content}</a>`).text;
      },
      // What is wider than the page scrolls, with the keyboard too.
      code: ({ text: code }: Tokens.Code) => html`<pre tabindex="0"><code>${code}</code></pre>\n`.text,
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
