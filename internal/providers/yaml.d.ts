/** Bun parses data files when it compiles the program. */
declare module '*.yaml' {
  const data: unknown
  export default data
}
