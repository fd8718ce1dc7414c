/** Where this room reports; the shape of pino's loggers. Texts are constant, values go into fields, secrets into neither. */
export interface TenantLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** The cause's name, code and text alone: drizzle's own text would carry the statement's parameters. */
export function errorFields(error: unknown): object {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  if (!(cause instanceof Error)) return { error: 'not an error' }
  return { error: cause.message, errorName: cause.name, errorCode: 'code' in cause ? cause.code : undefined }
}
