export { internalDocument, internalDocumentPath, internalDocumentRoutes } from './internal.ts'
export { type ContractConfig, contractRoutes, publicContract, publicDocumentPath } from './public.ts'
