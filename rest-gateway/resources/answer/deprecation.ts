import type { RestAnswer } from "../../conventions/endpoint.ts";

const OBJECT_END = 0x7d;

/** The same answer with the member `deprecation`, where the body is an object that could have one. */
export function withDeprecation(answer: RestAnswer, block: object): RestAnswer {
  const { body } = answer;
  if (body === null || body.at(-1) !== OBJECT_END) return answer;
  const isEmpty = body.toString().trim() === "{}";
  const member = `${isEmpty ? "" : ","}"deprecation":${JSON.stringify(block)}}`;
  return { ...answer, body: Buffer.concat([body.subarray(0, -1), Buffer.from(member)]) };
}
