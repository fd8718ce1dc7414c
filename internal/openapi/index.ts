export { internalDocument, internalDocumentRoutes } from './internal.ts'
export { type ContractConfig, contractRoutes, publicContract } from './public.ts'
