import type { ComputedField, Table } from "../../../db/catalog/catalog.ts";
import { byName } from "./order.ts";

/** The computed fields that can be selected: a column of the same name hides one. */
export const computedFieldsOf = ({ columns, computedFields }: Table): ComputedField[] =>
  byName(computedFields.values()).filter(({ name }) => !columns.has(name));
