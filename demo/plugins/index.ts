import { ArticleFilterPlugin } from "./ArticleFilterPlugin.ts";
import { ArticleSubscriptionsPlugin } from "./ArticleSubscriptionsPlugin.ts";
import { ArticleTitlePlugin } from "./ArticleTitlePlugin.ts";
import { DateTimePlugin } from "./DateTimePlugin.ts";
import { DeleteAnonymousPlugin } from "./DeleteAnonymousPlugin.ts";
import { RelationFilterNamesPlugin } from "./RelationFilterNamesPlugin.ts";

const ALWAYS = [ArticleFilterPlugin, ArticleTitlePlugin, ArticleSubscriptionsPlugin, RelationFilterNamesPlugin];

/** The variants of the contract. */
type Variants = { readonly deleteAnonymous: "error" | "false-result"; readonly timeScalar: "Time" | "DateTime" };

export const pluginsOf = ({ deleteAnonymous, timeScalar }: Variants) => [
  ...ALWAYS,
  ...(deleteAnonymous === "error" ? [] : [DeleteAnonymousPlugin]),
  ...(timeScalar === "Time" ? [] : [DateTimePlugin]),
];
