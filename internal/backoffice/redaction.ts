import { createRedactor, type Redactor } from '#internal/redaction/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'

/** Hides secrets by the built-in rules and by the fields that a tenant has named. */
export type RedactorOf = (tenant: Pick<DirectoryTenant, 'redactedFields'>) => Redactor

/** Makes each tenant's redactor once for each state of its list, which equal tenants share. */
export function createRedactors(): RedactorOf {
  const made = new WeakMap<readonly string[], Redactor>()
  return ({ redactedFields }) => {
    let redactor = made.get(redactedFields)
    if (!redactor) made.set(redactedFields, (redactor = createRedactor(redactedFields)))
    return redactor
  }
}

/** Headers of stored JSON text, redacted. */
export function redactHeaders(redactor: Redactor, headers: string): Record<string, string> {
  return redactor.headers(JSON.parse(headers) as Record<string, string>)
}
