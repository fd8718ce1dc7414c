/** Data files, which Bun parses when it compiles the program. */
declare module '*.yaml' {
  const data: unknown
  export default data
}
