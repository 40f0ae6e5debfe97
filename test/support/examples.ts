import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build, type PreviewServer, preview } from "vite";
import type { TestDatabase } from "./database.ts";

const OPTIONS = { root: "demo/pages", logLevel: "warn" } as const;

/** The example pages, behind a proxy that passes the paths of the service on. */
export class Examples {
  readonly #outDir: string;
  #pages: PreviewServer | null = null;

  private constructor(outDir: string) {
    this.#outDir = outDir;
  }

  static async build(): Promise<Examples> {
    const outDir = await mkdtemp(join(tmpdir(), "examples-"));
    await build({ ...OPTIONS, build: { outDir } });
    return new Examples(outDir);
  }

  /** Serves them for this service. */
  async serve(service: string): Promise<void> {
    process.env.SERVICE_URL = service;
    const options = { build: { outDir: this.#outDir }, preview: { port: 0, host: "127.0.0.1" } };
    this.#pages = await preview({ ...OPTIONS, ...options });
  }

  urlOf(folder: string): string {
    return `${this.#pages!.resolvedUrls!.local[0]}${folder}/index.html`;
  }

  async close(): Promise<void> {
    delete process.env.SERVICE_URL;
    await this.#pages?.close();
  }
}

/** Inserts an article of ada, and returns a function that inserts a comment of bob on it. */
export async function publishArticle(
  { owner }: TestDatabase,
  title: string,
): Promise<(content: string) => Promise<unknown>> {
  const { rows } = await owner.query(
    "insert into articles (title, content, author_id, status) values ($1, 'x', 1, 'PUBLISHED') returning id",
    [title],
  );
  return (content) =>
    owner.query("insert into comments (article_id, author_id, content) values ($1, 2, $2)", [rows[0].id, content]);
}
