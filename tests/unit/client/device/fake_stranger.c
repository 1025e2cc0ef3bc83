/* A library that is no device module. */
__attribute__((visibility("default"))) int stranger(void);

int
stranger(void)
{
    return 1;
}
