import type { Parameter } from "../../openapi/document.ts";
import type { Resource, ResourceField } from "../resource.ts";
import { type Edition, keyOf } from "./version.ts";

/** Where an operation is: at the resource itself, or in a collection of a record of another one. */
export type Place = {
  readonly resource: Resource;
  /** Those of the path. */
  readonly ids: readonly Parameter[];
  readonly parent: Parent | null;
};

/** `field` is the one whose value stands in the address. */
type Parent = { readonly resource: Resource; readonly field: ResourceField };

/** `Article`, and `UserArticle` in a collection of users. */
export const keyIn = (edition: Edition, place: Place): string =>
  `${parentKey(edition, place)}${keyOf(edition, place.resource, "record")}`;

export const parentKey = (edition: Edition, { parent }: Place): string =>
  parent ? keyOf(edition, parent.resource, "record") : "";

/** ` of a user` */
export const ofParent = ({ parent }: Place): string =>
  parent ? ` of ${one(parent.resource.description.singular)}` : "";

/** `an article`, `a user` */
export const one = (singular: string): string => `${/^[aeio]/i.test(singular) ? "an" : "a"} ${singular}`;
