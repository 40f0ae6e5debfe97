import type { Description } from "../description.ts";
import { ARTICLES } from "./articles.ts";
import { COMMENTS } from "./comments.ts";
import { USERS } from "./users.ts";

/** Every resource that is served, where its table is. */
export const DESCRIPTIONS: readonly Description[] = [USERS, ARTICLES, COMMENTS];
