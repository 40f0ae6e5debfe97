import { ArticleFilterPlugin } from "./ArticleFilterPlugin.ts";
import { ArticleSubscriptionsPlugin } from "./ArticleSubscriptionsPlugin.ts";
import { ArticleTitlePlugin } from "./ArticleTitlePlugin.ts";
import { DeleteAnonymousPlugin } from "./DeleteAnonymousPlugin.ts";

const ALWAYS = [ArticleFilterPlugin, ArticleTitlePlugin, ArticleSubscriptionsPlugin];

export const pluginsOf = (deleteAnonymous: "error" | "false-result") =>
  deleteAnonymous === "error" ? ALWAYS : [...ALWAYS, DeleteAnonymousPlugin];
