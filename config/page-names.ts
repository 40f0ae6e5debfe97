import { z } from "zod";

/** The pages that PAGES can name. */
export const PAGE_NAMES = ["docs", "graphiql", "console"] as const;

export type PageName = (typeof PAGE_NAMES)[number];

/** `docs, console` → `["docs", "console"]`; `none` → `[]` */
export const pageNames = z
  .string()
  .transform((text) => (text === "none" ? [] : text.split(",").map((name) => name.trim())))
  .pipe(z.array(z.enum(PAGE_NAMES, { error: `must be none, or a list of ${PAGE_NAMES.join(", ")}` })));

/** Whether a page is given like a setting of its own: `CONSOLE` */
export const isPage = (name: string): boolean => PAGE_NAMES.some((page) => page.toUpperCase() === name);
