/** That of the server this client was made with; a test keeps them in step. */
export const VERSION = '0.1.0';
