import { extname } from "node:path";
import type { ListedPart } from "../service/parts.ts";

const LIST = `../parts/list${extname(import.meta.filename)}`;

/** The parts of the service. They are loaded by name, because a static import would make parts and commands import each other. */
export const { PARTS }: { readonly PARTS: readonly ListedPart[] } = await import(LIST);
