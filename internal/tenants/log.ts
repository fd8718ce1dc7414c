/** Where this room reports; the shape of pino's loggers. Texts are constant, values go into fields, secrets into neither. */
export interface TenantLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}
