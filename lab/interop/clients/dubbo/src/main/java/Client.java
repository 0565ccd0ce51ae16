public final class Client { public static void main(String[] a) {} }
