import type { Description } from "../description.ts";
import { ARTICLES } from "./articles.ts";
import { COMMENTS } from "./comments.ts";
import { USERS } from "./users.ts";

/** Every resource. It is served if its table exists. */
export const DESCRIPTIONS: readonly Description[] = [USERS, ARTICLES, COMMENTS];
