// The part of js-yaml that the console uses; the package brings no types.
declare module 'js-yaml' {
  export interface Schema {
    readonly name?: string;
  }
  export class YAMLException extends Error {
    reason: string;
    mark?: { line: number; column: number };
  }
  export const CORE_SCHEMA: Schema;
  export function load(text: string, options?: { schema?: Schema }): unknown;
}
